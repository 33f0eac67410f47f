/** Something the editor underlines. Lines and columns count from 1. */
export interface Problem {
  line: number;
  column: number;
  endLine?: number;
  endColumn?: number;
  severity: "error" | "warning" | "info";
  message: string;
}
