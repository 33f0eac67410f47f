/** Time zones by their IANA names. */

// For engines that cannot list time zones: one or more for each offset in use.
const known = [
  "Africa/Abidjan", "Africa/Algiers", "Africa/Cairo", "Africa/Casablanca", "Africa/Johannesburg", "Africa/Lagos", "Africa/Nairobi",
  "America/Anchorage", "America/Argentina/Buenos_Aires", "America/Bogota", "America/Caracas", "America/Chicago", "America/Denver", "America/Halifax",
  "America/Havana", "America/Lima", "America/Los_Angeles", "America/Mexico_City", "America/New_York", "America/Phoenix", "America/Santiago",
  "America/Sao_Paulo", "America/St_Johns", "America/Toronto", "America/Vancouver", "Asia/Almaty", "Asia/Baghdad", "Asia/Baku", "Asia/Bangkok",
  "Asia/Colombo", "Asia/Dhaka", "Asia/Dubai", "Asia/Ho_Chi_Minh", "Asia/Hong_Kong", "Asia/Jakarta", "Asia/Jerusalem", "Asia/Kabul", "Asia/Karachi",
  "Asia/Kathmandu", "Asia/Kolkata", "Asia/Manila", "Asia/Riyadh", "Asia/Seoul", "Asia/Shanghai", "Asia/Singapore", "Asia/Taipei", "Asia/Tashkent",
  "Asia/Tehran", "Asia/Tokyo", "Asia/Vladivostok", "Asia/Yangon", "Atlantic/Azores", "Atlantic/Reykjavik", "Australia/Adelaide", "Australia/Brisbane",
  "Australia/Darwin", "Australia/Lord_Howe", "Australia/Perth", "Australia/Sydney", "Europe/Amsterdam", "Europe/Athens", "Europe/Berlin",
  "Europe/Brussels", "Europe/Bucharest", "Europe/Budapest", "Europe/Copenhagen", "Europe/Dublin", "Europe/Helsinki", "Europe/Istanbul", "Europe/Kyiv",
  "Europe/Lisbon", "Europe/London", "Europe/Madrid", "Europe/Moscow", "Europe/Oslo", "Europe/Paris", "Europe/Prague", "Europe/Rome", "Europe/Sofia",
  "Europe/Stockholm", "Europe/Vienna", "Europe/Warsaw", "Europe/Zurich", "Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Fiji",
  "Pacific/Honolulu", "Pacific/Tongatapu",
];

/** All time zones that can be chosen, by name; UTC and those of `more` are always included. */
export function zones(more: readonly string[] = [], list = listed): string[] {
  return [...new Set(["UTC", ...more.filter((z) => z !== ""), ...list()])].sort((a, b) => (a === "UTC" ? -1 : b === "UTC" ? 1 : a < b ? -1 : 1));
}

function listed(): readonly string[] {
  const intl = Intl as typeof Intl & { supportedValuesOf?: (key: string) => string[] };
  try {
    return intl.supportedValuesOf?.("timeZone") ?? known;
  } catch {
    return known;
  }
}

/** The offset of a time zone at a time: "UTC+02:00"; empty for a time zone unknown to this engine. */
export function offset(zone: string, at = Date.now()): string {
  try {
    const name = new Intl.DateTimeFormat("en", { timeZone: zone, timeZoneName: "longOffset" }).formatToParts(at).find((p) => p.type === "timeZoneName")?.value ?? "";
    return name.replace("GMT", "UTC");
  } catch {
    return "";
  }
}

/** The time zone of this browser, which on one machine is also that of the backend. */
export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** "New York" for America/New_York. */
export const city = (zone: string): string => (zone.split("/").at(-1) ?? zone).replaceAll("_", " ");

/** The display name of a time zone: "America/New York". */
export const zoneName = (zone: string): string => zone.replaceAll("_", " ");
