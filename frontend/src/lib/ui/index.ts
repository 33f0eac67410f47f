/**
 * Everything a screen is made of. Import from here:
 *
 *     import { Button, List, toasts, commands, Load } from "../../lib/ui";
 *
 * Each component says in its `@component` comment what it is for. The code
 * editor is apart, in `lib/code/Editor.svelte`, because it loads late.
 */
export { default as AreaField } from "./AreaField.svelte";
export { default as Badge } from "./Badge.svelte";
export { default as Banner } from "./Banner.svelte";
export { default as Button } from "./Button.svelte";
export { default as Check } from "./Check.svelte";
export { default as Combo } from "./Combo.svelte";
export { default as Dialog } from "./Dialog.svelte";
export { default as Diff } from "./Diff.svelte";
export { default as DurationField } from "./DurationField.svelte";
export { default as EmptyState } from "./EmptyState.svelte";
export { default as ErrorState } from "./ErrorState.svelte";
export { default as FileDrop } from "./FileDrop.svelte";
export { filesOf } from "./files";
export { default as Field } from "./Field.svelte";
export { default as IconButton } from "./IconButton.svelte";
export { default as Inspector } from "./Inspector.svelte";
export { default as Kbd } from "./Kbd.svelte";
export { default as List } from "./List.svelte";
export { default as Menu } from "./Menu.svelte";
export type { MenuItem } from "./Menu.svelte";
export { default as MomentField } from "./MomentField.svelte";
export { default as Note } from "./Note.svelte";
export { default as PathPick } from "./PathPick.svelte";
export { default as Props } from "./Props.svelte";
export { default as RowSwitch } from "./RowSwitch.svelte";
export { default as RowMenu } from "./RowMenu.svelte";
export { default as Screen } from "./Screen.svelte";
export { default as SearchBox } from "./SearchBox.svelte";
export { default as Section } from "./Section.svelte";
export { default as Select } from "./Select.svelte";
export { default as SelectField } from "./SelectField.svelte";
export { default as Skeleton } from "./Skeleton.svelte";
export { default as SplitPane } from "./SplitPane.svelte";
export { default as Switch } from "./Switch.svelte";
export { default as Tabs } from "./Tabs.svelte";
export { default as TextField } from "./TextField.svelte";
export { default as TimeField } from "./TimeField.svelte";
export { default as Tip } from "./Tip.svelte";
export { default as UploadButton } from "./UploadButton.svelte";
export { default as Tree } from "./Tree.svelte";
export * from "./state";
