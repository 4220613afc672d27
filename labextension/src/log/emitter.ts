/** Those who are to hear of something, as long as they want to. */
export class Emitter<Given extends unknown[] = []> {
  private readonly listeners = new Set<(...given: Given) => unknown>();

  /** Call `listener` from now on, until what this returns is called. */
  readonly subscribe = (listener: (...given: Given) => unknown): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  tell(...given: Given): void {
    this.listeners.forEach(listener => listener(...given));
  }
}
