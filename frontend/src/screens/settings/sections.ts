/** The pages of Settings, in order. `words` is what the palette finds them by. */
export const sections = [
  { id: "app", title: "App", words: "window graphics card gpu notifications quiet hours log level" },
  { id: "appearance", title: "Appearance", words: "theme light dark color" },
  { id: "gateway", title: "Gateway", words: "address port tokens sessions origins browser" },
  { id: "data", title: "Data", words: "backup restore export import retention prune check size disk" },
  { id: "keys", title: "Keys", words: "keyring recovery code secrets private mode encryption" },
  { id: "sandbox", title: "Sandbox", words: "engine isolation tiers cache pool landlock bubblewrap limits profiles" },
  { id: "all", title: "All settings", words: "advanced config key" },
] as const;

export type SectionId = (typeof sections)[number]["id"];
