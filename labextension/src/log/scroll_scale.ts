/**
 * Content of any height in a scroller of bounded height: browsers cap the height of elements. Content up
 * to the bound is scrolled as it is. Above it, the scroller's ends map to the content's ends pixel for
 * pixel and the middle is compressed; small movements always move the content by as many pixels.
 */
export class ScrollScale {
  /** pixels of content above the view */
  top = 0;
  /** the scroller's position that shows it */
  position = 0;
  private content = 0;
  private view = 0;

  constructor(private readonly bound = 8_000_000) {}

  resize(content: number, view: number): void {
    // while nothing changes the position stays where small movements have taken it
    if (content !== this.content || view !== this.view) {
      this.content = content;
      this.view = view;
      this.moveTo(this.top);
    }
  }

  /** Height of the scroller's content. */
  get height(): number {
    return Math.min(this.content, this.bound);
  }

  /** The largest `top`. */
  get end(): number {
    return Math.max(0, this.content - this.view);
  }

  /** Show the content from `top` on; the scroller's position for it. */
  moveTo(top: number): number {
    this.top = Math.max(0, Math.min(top, this.end));
    this.position = this.positionOf(this.top);
    return this.position;
  }

  /** The reader has scrolled to `position`; the position that the scroller should take instead. */
  scrolled(position: number): number {
    const step = position - this.position;
    if (this.content <= this.bound || Math.abs(step) > 4 * this.view) {
      this.position = position;
      this.top = this.topOf(position);
      return position;
    }
    this.top = Math.max(0, Math.min(this.top + step, this.end));
    this.position = position;
    const last = this.height - this.view;
    const nearEnd = position < this.edge || position > last - this.edge;
    // near an end the two must agree, or the end would come too early or too late
    if (nearEnd || this.top <= this.edge || this.top >= this.end - this.edge) {
      this.position = this.positionOf(this.top);
    }
    return this.position;
  }

  /** length of the parts that are not compressed */
  private get edge(): number {
    return this.bound / 8;
  }

  private positionOf(top: number): number {
    const last = Math.max(0, this.height - this.view);
    if (this.content <= this.bound || top <= this.edge) {
      return Math.min(top, last);
    }
    if (top >= this.end - this.edge) {
      return last - (this.end - top);
    }
    return this.edge + (top - this.edge) * this.compression;
  }

  private topOf(position: number): number {
    const last = Math.max(0, this.height - this.view);
    if (this.content <= this.bound || position <= this.edge) {
      return Math.max(0, Math.min(position, this.end));
    }
    if (position >= last - this.edge) {
      return Math.min(this.end, this.end - (last - position));
    }
    return this.edge + (position - this.edge) / this.compression;
  }

  private get compression(): number {
    const last = this.height - this.view;
    return (last - 2 * this.edge) / (this.end - 2 * this.edge);
  }
}
