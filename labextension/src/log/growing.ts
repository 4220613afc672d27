/** Numbers that grow at their end, in one typed array: what indexes of hundreds of thousands of lines are made of. */

export type NumberArray = Uint16Array | Uint32Array | Float32Array | Float64Array;

export class Growing<T extends NumberArray> {
  /** at least `length` long; hot loops read it directly */
  items: T;
  length = 0;

  constructor(
    private readonly make: (length: number) => T,
    capacity = 16,
  ) {
    this.items = make(capacity);
  }

  push(value: number): void {
    if (this.length === this.items.length) {
      this.reserve(this.length + 1);
    }
    this.items[this.length++] = value;
  }

  truncate(length: number): void {
    this.length = Math.min(this.length, length);
  }

  /** Take `removed` numbers out at `at` and put the first `count` of `added` there. */
  splice(at: number, removed: number, added: ArrayLike<number>, count = added.length): void {
    const length = this.length - removed + count;
    this.reserve(length);
    this.items.copyWithin(at + count, at + removed, this.length);
    if (ArrayBuffer.isView(added)) {
      this.items.set((added as NumberArray).subarray(0, count), at);
    } else {
      for (let i = 0; i < count; i++) {
        this.items[at + i] = added[i]!;
      }
    }
    this.length = length;
  }

  /** Return the numbers in an array of exactly their length. */
  trimmed(): T {
    const exact = this.make(this.length);
    exact.set(this.items.subarray(0, this.length));
    return exact;
  }

  private reserve(length: number): void {
    if (length > this.items.length) {
      // by a third: the slack of large indexes counts in the page's memory
      const larger = this.make(Math.max(length, Math.ceil(this.items.length * 1.33) + 16));
      larger.set(this.items.subarray(0, this.length));
      this.items = larger;
    }
  }
}

export const growing16 = (): Growing<Uint16Array> => new Growing(length => new Uint16Array(length));
export const growing32 = (): Growing<Uint32Array> => new Growing(length => new Uint32Array(length));
export const growing64 = (): Growing<Float64Array> => new Growing(length => new Float64Array(length));
export const growingFloat = (): Growing<Float32Array> => new Growing(length => new Float32Array(length));

/** Return the first position in `sorted` that is not less than `value`. */
export function lowerBound(sorted: Growing<Uint32Array>, value: number): number {
  return firstWhere(sorted.length, at => sorted.items[at]! >= value);
}

/** Return the first of `length` positions at which `holds`, which goes on to hold from there; `length` for none. */
export function firstWhere(length: number, holds: (at: number) => boolean): number {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}
