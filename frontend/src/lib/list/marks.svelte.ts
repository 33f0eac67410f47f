/** Rows selected together for one action. */
export class Marks {
  ids = $state.raw<ReadonlySet<string>>(new Set());

  get size(): number {
    return this.ids.size;
  }
  has(id: string): boolean {
    return this.ids.has(id);
  }
  toggle(id: string): void {
    const ids = new Set(this.ids);
    if (!ids.delete(id)) ids.add(id);
    this.ids = ids;
  }
  drop(gone: Iterable<string>): void {
    const ids = new Set(this.ids);
    for (const id of gone) ids.delete(id);
    if (ids.size !== this.ids.size) this.ids = ids;
  }
  clear(): void {
    this.ids = new Set();
  }
}
