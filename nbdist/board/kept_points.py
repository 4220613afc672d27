"""Which points of a curve are kept where it has more than are shown."""

from __future__ import annotations

from typing import Any

from visualdl.server import data_manager


class EvenBucket(data_manager._ReservoirBucket):  # type: ignore[misc]
    """The points of one curve: every n-th, the lowest, the highest, and always the last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._items: list[Any]
        self._num_items_index: int
        self._numbers: list[int] = []  # which point each of _items is
        self._stride = 1
        self._lowest = self._highest = (0, float("nan"))

    def add_scalar_item(self, item: Any) -> None:
        is_scalar = item.WhichOneof("one_value") == "value"
        self.add(item, item.value if is_scalar else item.tag_value.value)

    add_scalars_item = add_scalar_item

    def add(self, item: Any, value: float) -> None:
        """Take an item, and what it is worth."""
        with self._mutex:
            number = self._num_items_index
            self._num_items_index = number + 1
            if not value >= self._lowest[1]:  # also when there is none yet: NaN
                self._lowest = (number, value)
            if not value <= self._highest[1]:
                self._highest = (number, value)
            numbers = self._numbers
            if numbers and not self._stays(numbers[-1]):
                numbers[-1], self._items[-1] = number, item
            else:
                numbers.append(number)
                self._items.append(item)
            while 0 < self._max_size < len(self._items):
                self._stride *= 2
                kept = [i for i, n in enumerate(self._numbers) if n == number or self._stays(n)]
                self._numbers = [self._numbers[i] for i in kept]
                self._items = [self._items[i] for i in kept]

    def _stays(self, number: int) -> bool:
        return not number % self._stride or number == self._lowest[0] or number == self._highest[0]
