import { describe, expect, it } from "vitest";
import { RpcError } from "./errors";
import { fieldErrors, isWithin, listedErrors } from "./fields";

const error = (details?: unknown): RpcError => new RpcError({ kind: "invalid", message: "It is wrong.", details });

describe("the fields of an error", () => {
  it("are read from the details, never from the sentence", () => {
    expect(fieldErrors(new RpcError({ kind: "invalid", message: "name: required" }))).toEqual([]);
    expect(fieldErrors(error({ field: "cadence.timezone", code: "unknown_value" }))).toEqual([{ path: "cadence.timezone", code: "unknown_value", message: "It is wrong." }]);
  });

  it("may be several", () => {
    const errors = [
      { path: "jitterSecs", code: "out_of_range", message: "Too long." },
      { path: "retry.max", code: "out_of_range", message: "Too many." },
    ];
    expect(fieldErrors(error({ errors }))).toEqual(errors);
    expect(listedErrors(error({ errors }))).toEqual(errors);
  });

  it("lie below the field that the details name", () => {
    const details = {
      field: "target.input",
      code: "invalid",
      errors: [
        { path: "/city", keyword: "type", message: "expected string" },
        { path: "", keyword: "required", message: "missing" },
        { path: "list[0]", code: "missing", message: "empty" },
      ],
    };
    expect(fieldErrors(error(details)).map((e) => [e.path, e.code])).toEqual([
      ["target.input", "invalid"],
      ["target.input/city", "type"],
      ["target.input", "required"],
      ["target.input.list[0]", "missing"],
    ]);
    expect(listedErrors(error(details))).toHaveLength(3);
  });

  it("are none where the details have another form", () => {
    for (const details of [undefined, null, "x", [1], { errors: "x" }, { errors: [1, null, {}] }, { field: 3 }]) expect(fieldErrors(error(details))).toEqual([]);
  });

  it("contain what lies in them and not what begins alike", () => {
    expect(["target", "target.id", "target[0]", "target/x"].every((p) => isWithin(p, "target"))).toBe(true);
    expect(["targets", "", "a.target"].some((p) => isWithin(p, "target"))).toBe(false);
  });
});
