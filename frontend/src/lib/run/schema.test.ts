import { describe, expect, it } from "vitest";
import { fieldProblem, fromForm, newField, paramFields, parseSchema, readParam, showParam, startValue, extraParams, takesAnything, toForm, type ParamField } from "./schema";

const schema = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  properties: {
    text: { type: "string", description: "What to count", minLength: 1 },
    n: { type: "integer", default: 3, minimum: 1, maximum: 9 },
    kind: { enum: ["a", "b"] },
  },
  required: ["text"],
  additionalProperties: false,
};

describe("schema as a form", () => {
  it("round trips without losing what the form does not show", () => {
    const form = toForm(schema);
    expect(form.blocked).toBe("");
    expect(fromForm(schema, form.fields)).toEqual(schema);
    expect(Object.keys(fromForm(schema, form.fields))).toEqual(Object.keys(schema));
  });

  it("adds, renames, requires and removes fields", () => {
    const { fields } = toForm(schema);
    const added = [...fields, { ...newField(fields), name: "extra", type: "boolean" as const, default: "true", required: true }];
    const out = fromForm(schema, added) as { properties: Record<string, unknown>; required: string[] };
    expect(out.properties["extra"]).toEqual({ type: "boolean", default: true });
    expect(out.required).toEqual(["text", "extra"]);

    const renamed = fromForm(schema, fields.map((f) => (f.name === "text" ? { ...f, name: "body" } : f))) as typeof out;
    expect(renamed.properties["body"]).toEqual(schema.properties.text);
    expect(renamed.required).toEqual(["body"]);

    const none = fromForm(schema, []);
    expect(none["properties"]).toEqual({});
    expect(none).not.toHaveProperty("required");
  });

  it("keeps the keys of rows so that focus stays", () => {
    const a = toForm(schema);
    const b = toForm(schema, a.fields);
    expect(b.fields.map((f) => f.key)).toEqual(a.fields.map((f) => f.key));
  });

  it("says why it cannot show a schema", () => {
    expect(toForm({ type: "array" }).blocked).toContain("object");
    expect(toForm({ type: "object", properties: { a: { type: ["string", "null"] } } }).blocked).toContain("a");
    expect(parseSchema("{").error).toContain("Not valid JSON");
    expect(parseSchema("[]").error).toContain("JSON object");
    expect(parseSchema("  ").schema).toEqual({ type: "object" });
  });

  it("names problems of a row", () => {
    const { fields } = toForm(schema);
    expect(fieldProblem({ ...fields[0]!, name: "" }, fields)).toContain("name");
    expect(fieldProblem({ ...fields[0]!, name: "n" }, fields)).toContain("Another");
    expect(fieldProblem({ ...fields[1]!, default: "x" }, fields)).toContain("integer");
    expect(fieldProblem({ ...fields[1]!, default: "1.5" }, fields)).toContain("integer");
    expect(fieldProblem({ ...fields[0]!, default: "plain words" }, fields)).toBe("");
  });

  it("gives a new field a free name", () => {
    const one = newField([]);
    expect(one.name).toBe("field");
    expect(newField([one]).name).toBe("field2");
  });
});

describe("the run form", () => {
  const fields = paramFields(schema)!;
  const by = (name: string): ParamField => fields.find((f) => f.name === name)!;

  it("chooses a control for each type", () => {
    expect(fields.map((f) => [f.name, f.control])).toEqual([
      ["text", "long"],
      ["n", "number"],
      ["kind", "choice"],
    ]);
    expect(paramFields({ properties: { p: { type: "string", format: "password" } } })![0]!.control).toBe("password");
    expect(paramFields({ properties: { p: { type: "string", "x-secret": true } } })![0]!.control).toBe("password");
    expect(paramFields({ properties: { p: { type: "array" } } })![0]!.control).toBe("json");
    expect(paramFields({ properties: { p: { type: "boolean" } } })![0]!.control).toBe("boolean");
  });

  it("leaves to JSON what no form fits", () => {
    expect(paramFields({ oneOf: [] })).toBeNull();
    expect(paramFields({ type: "array" })).toBeNull();
    expect(paramFields(null)).toEqual([]);
    expect(paramFields({ type: "object" })).toEqual([]);
    expect(takesAnything({ type: "object" })).toBe(true);
    expect(takesAnything(undefined)).toBe(true);
    expect(takesAnything({ type: "object", additionalProperties: false })).toBe(false);
    expect(takesAnything({ properties: { p: { type: "string" } } })).toBe(false);
  });

  it("starts with the defaults", () => expect(startValue(fields)).toEqual({ n: 3 }));

  it("names parameters that no field asks for", () => {
    expect(extraParams(fields, { text: "a", old: 1 })).toEqual(["old"]);
  });

  it("reads what is typed", () => {
    expect(readParam(by("n"), "4")).toEqual({ value: 4, error: "" });
    expect(readParam(by("n"), "4.5").error).toContain("whole");
    expect(readParam(by("n"), "0").error).toContain("At least 1");
    expect(readParam(by("n"), "10").error).toContain("At most 9");
    expect(readParam(by("n"), "x").error).toContain("number");
    expect(readParam(by("n"), "")).toEqual({ value: undefined, error: "" });
    expect(readParam(by("kind"), '"a"').value).toBe("a");
    // An empty text is a value where one is required, and no value where it is not.
    expect(readParam(by("text"), "").value).toBe("");
    expect(readParam({ ...by("text"), required: false }, "").value).toBeUndefined();
    const list = paramFields({ properties: { p: { type: "array" } } })![0]!;
    expect(readParam(list, "[1]").value).toEqual([1]);
    expect(readParam(list, "{}").error).toContain("array");
    expect(readParam(list, "[").error).toContain("JSON");
  });

  it("shows values as they were typed", () => {
    expect(showParam(by("text"), "a")).toBe("a");
    expect(showParam(by("n"), 4)).toBe("4");
    expect(showParam(by("n"), undefined)).toBe("");
    expect(showParam(by("kind"), "a")).toBe('"a"');
  });
});
