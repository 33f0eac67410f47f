/** The texts of a list; part of its screen's catalog. */
export interface ListWords {
  /** Heading of the screen and name of the list: "Schedules". */
  title: string;
  /** Name of the inspector: "Schedule". */
  one: string;
  /** "Search schedules" */
  search: string;
  /** Name of the bar with the filters: "Filter schedules". */
  filter: string;
  /** "Loading schedules" */
  loading: string;
  /** "Couldn't load schedules." */
  failed: string;
  /** What is safe although the list could not be read: "They keep running." */
  kept: string;
  /** "No matching schedules" */
  noMatch: string;
}
