/** Long-running work that the status bar shows. */
export interface Job {
  id: string;
  title: string;
  /** The current step, in a few words, or "". */
  step: string;
  /** 0..1, or undefined when the length is not known. */
  progress: number | undefined;
  since: number;
  /** Where it is shown in full: a target for `nav.go`. */
  target: string;
  cancel?: () => void;
}

/** Work that is running, each with the time at which it was first seen. */
export class JobList {
  all = $state.raw<readonly Job[]>([]);

  get(id: string): Job | undefined {
    return this.all.find((j) => j.id === id);
  }

  /** Adds a job or updates it; it keeps its start. */
  put(job: Omit<Job, "since" | "progress"> & { since?: number | undefined; progress?: number | undefined }): void {
    const since = this.get(job.id)?.since ?? job.since ?? Date.now();
    this.all = [...this.all.filter((j) => j.id !== job.id), { ...job, progress: job.progress, since }];
  }

  remove(id: string): void {
    if (this.get(id)) this.all = this.all.filter((j) => j.id !== id);
  }

  /** Removes the jobs for which `keep` is false. */
  retain(keep: (job: Job) => boolean): void {
    this.all = this.all.filter(keep);
  }
}
