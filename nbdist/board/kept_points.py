"""Which points of a curve are kept where it has more than are shown."""

from __future__ import annotations

from typing import Any

from visualdl.server import data_manager


class EvenBucket(data_manager._ReservoirBucket):  # type: ignore[misc]
    """The points of one curve: every n-th, the lowest, the highest, and always the last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._items: list[Any]
        self._numbers: list[int] = []  # which point each of _items is
        self._stride = 1
        self._lowest = self._highest = (0, float("nan"))

    def add_scalar_item(self, item: Any) -> None:
        is_scalar = item.WhichOneof("one_value") == "value"
        value = item.value if is_scalar else item.tag_value.value
        with self._mutex:
            number = self._num_items_index
            self._num_items_index += 1
            if not value >= self._lowest[1]:  # also when there is none yet: NaN
                self._lowest = (number, value)
            if not value <= self._highest[1]:
                self._highest = (number, value)
            if self._numbers and not self._stays(self._numbers[-1]):
                self._numbers.pop()
                self._items.pop()
            self._numbers.append(number)
            self._items.append(item)
            while 0 < self._max_size < len(self._items):
                self._stride *= 2
                kept = [i for i, n in enumerate(self._numbers) if n == number or self._stays(n)]
                self._numbers = [self._numbers[i] for i in kept]
                self._items = [self._items[i] for i in kept]

    add_scalars_item = add_scalar_item

    def _stays(self, number: int) -> bool:
        return number % self._stride == 0 or number in (
            self._lowest[0],
            self._highest[0],
        )
