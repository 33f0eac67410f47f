/** Small texts that only the Tools screen needs. */

const fields: Record<string, string> = { code: "Code", language: "Language", parameters: "Parameters", description: "Description", sandboxProfile: "Profile", limits: "Limits", name: "Name", icon: "Icon", tags: "Tags" };

/** Name of a field of a tool's definition. */
export const fieldWord = (name: string): string => fields[name] ?? name;
