/**
 * Runs of all callables, and the permissions that they need. Components import from here; state classes from
 * the modules, without any component.
 */
export { explainCapability, formatCapability } from "./capabilities";
export { default as CallPane } from "./CallPane.svelte";
export { default as CapabilityForm } from "./CapabilityForm.svelte";
export { default as DefinitionDiff } from "./DefinitionDiff.svelte";
export { default as FailureBox } from "./FailureBox.svelte";
export { failureTitle, megabytes, widerProfile, type FailureAction, type RunLimits } from "./failures";
export { isolationWords, reasonWords } from "./isolation";
export { default as Isolation } from "./Isolation.svelte";
export { default as ListRow } from "./ListRow.svelte";
export { default as Meter } from "./Meter.svelte";
export { default as ParamForm } from "./ParamForm.svelte";
export { GUARD_MS, HOLD_MS, type Scope } from "./prompt.svelte";
export { default as Rights } from "./Rights.svelte";
export { default as RunList } from "./RunList.svelte";
export { default as RunResult } from "./RunResult.svelte";
export { default as RunStatus } from "./RunStatus.svelte";
export { default as RunValue } from "./RunValue.svelte";
export { FIELD_TYPES, extraParams, fieldProblem, fromForm, jsonProblem, newField, paramFields, parseSchema, readParam, showParam, startValue, takesAnything, toForm, type FieldType, type ParamField, type Schema, type SchemaField } from "./schema";
export { isOpen, stateOptions, stateTitle, stateTone, stateWord } from "./states";
export { default as Timeline } from "./Timeline.svelte";
export { callerWord, fieldWord, full, pathWords, scopeText, shortHash, valueText } from "./words";
