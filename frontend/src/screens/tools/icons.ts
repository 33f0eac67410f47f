/** The icons a tool can have, by the name that is stored. */
import Banknote from "@lucide/svelte/icons/banknote";
import Bell from "@lucide/svelte/icons/bell";
import Binary from "@lucide/svelte/icons/binary";
import Braces from "@lucide/svelte/icons/braces";
import Calculator from "@lucide/svelte/icons/calculator";
import CalendarDays from "@lucide/svelte/icons/calendar-days";
import Clock from "@lucide/svelte/icons/clock";
import Code from "@lucide/svelte/icons/code";
import Database from "@lucide/svelte/icons/database";
import FileText from "@lucide/svelte/icons/file-text";
import Filter from "@lucide/svelte/icons/filter";
import Folder from "@lucide/svelte/icons/folder";
import Globe from "@lucide/svelte/icons/globe";
import Hash from "@lucide/svelte/icons/hash";
import Image from "@lucide/svelte/icons/image";
import Key from "@lucide/svelte/icons/key";
import Link from "@lucide/svelte/icons/link";
import List from "@lucide/svelte/icons/list";
import Mail from "@lucide/svelte/icons/mail";
import Search from "@lucide/svelte/icons/search";
import Shuffle from "@lucide/svelte/icons/shuffle";
import Table from "@lucide/svelte/icons/table";
import Type from "@lucide/svelte/icons/type";
import Wrench from "@lucide/svelte/icons/wrench";
import type { Component } from "svelte";

type Icon = Component<Record<string, unknown>>;

/** Names and icons in the order of the picker. `wrench` is the default. */
export const ICONS: Readonly<Record<string, Icon>> = {
  wrench: Wrench,
  text: FileText,
  type: Type,
  hash: Hash,
  calculator: Calculator,
  braces: Braces,
  code: Code,
  binary: Binary,
  table: Table,
  list: List,
  filter: Filter,
  shuffle: Shuffle,
  globe: Globe,
  link: Link,
  mail: Mail,
  bell: Bell,
  search: Search,
  database: Database,
  folder: Folder,
  image: Image,
  clock: Clock,
  calendar: CalendarDays,
  banknote: Banknote,
  key: Key,
};

/** Other names with which an icon may be stored. */
const ALSO: Readonly<Record<string, string>> = { "file-text": "text", "calendar-days": "calendar", coins: "banknote", currency: "banknote", json: "braces", csv: "table" };

/** The icon of a stored name, or null if the name is something else, such as an emoji. */
export function iconOf(name: string): Icon | null {
  if (name === "") return Wrench;
  const own = (o: object, k: string): boolean => Object.prototype.hasOwnProperty.call(o, k);
  const known = own(ALSO, name) ? (ALSO[name] ?? "") : name;
  return own(ICONS, known) ? (ICONS[known] ?? null) : null;
}
