/** A problem that the editor underlines. Lines and columns start at 1. */
export interface Problem {
  line: number;
  column: number;
  endLine?: number;
  endColumn?: number;
  severity: "error" | "warning" | "info";
  message: string;
}
