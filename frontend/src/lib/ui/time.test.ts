import { expect, it } from "vitest";
import { parseTime, shiftTime } from "./time";

it.each([
  ["9", "09:00"],
  ["930", "09:30"],
  ["0930", "09:30"],
  ["9:30", "09:30"],
  ["9.30", "09:30"],
  [" 23:59 ", "23:59"],
  ["9 Uhr", "09:00"],
  ["9:30 pm", "21:30"],
  ["12 am", "00:00"],
  ["12 p.m.", "12:00"],
  ["24:00", null],
  ["9:60", null],
  ["13 pm", null],
  ["9:3", null],
  ["soon", null],
  ["", null],
])("reads %j as %j", (typed, time) => expect(parseTime(typed)).toBe(time));

it("moves a time past midnight in both directions", () => {
  expect([shiftTime("23:30", 60), shiftTime("00:10", -15), shiftTime("08:05", 1)]).toEqual(["00:30", "23:55", "08:06"]);
});
