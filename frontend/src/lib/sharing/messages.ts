/** Texts of sharing tools and skills. */
import { catalogue, number } from "../i18n";

export const en = {
  links: "Links",
  cannotLoadLinks: "Couldn't load links",
  notShared: "Not shared",
  versionNo: (version: string) => `Version ${version}`,
  withLink: "With the link",
  shareStates: { expired: "Expired", revoked: "Withdrawn" },
  opened: (n: number | undefined, until: string) => [...(n === undefined ? [] : [n === 0 ? "not opened yet" : n === 1 ? "opened once" : `opened ${number(n)} times`]), ...(until === "" ? [] : [`until ${until}`])].join(", "),
  copyLink: "Copy link",
  copiedLink: "Copied the link",
  withdraw: "Withdraw",
  sharingEnded: "Sharing ended",
  cannotWithdraw: "Couldn't withdraw the link",
  shareTitle: (name: string) => `Share ${name}`,
  shareText: "A link shares one version. Later changes aren't included.",
  noHub: "No hub is connected.",
  linkTo: (version: string) => `Link to version ${version}`,
  reviewFirst: "People who open it see a review first.",
  access: "Access",
  sendFile: "You can send the file instead.",
  saveFile: "Save file",
  createLink: "Create link",
  done: "Done",
  share: "Share…",
  public: "Public",
  file: "File",
  exportFile: "Export file",
  kinds: {
    tool: {
      noHubLinks: "No hub is connected, so links work on this device only. To share the tool with someone else, send the file.",
      noHubText: "The link works on this device only. To share the tool with someone else, send the file.",
      fileText: "A signed file with the code, the schema and the requested permissions. It contains no secrets, state or run history.",
      accesses: { link: { label: "Anyone with the link", hint: "" }, public: { label: "Everyone", hint: "Also listed in the marketplace" } },
    },
    skill: {
      noHubLinks: "No hub is connected. To share the skill with someone, send the file.",
      noHubText: "A link needs a hub. To share the skill with someone, send the file.",
      fileText: "A signed file with the steps, and with the tools that they call. It contains no secrets, permissions or run history.",
      accesses: { link: { label: "Anyone with the link", hint: "" }, public: { label: "Everyone", hint: "Also listed for everyone who uses this hub" } },
    },
  },
};

export type Messages = typeof en;
export const t = catalogue(en, { de: () => import("./messages.de") });
