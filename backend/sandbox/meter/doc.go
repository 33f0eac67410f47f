// Package meter adds fuel metering and a way to stop to WebAssembly. It checks a module against
// hard limits and rewrites it, so that the guest itself counts what it executes, uses its budget in
// small slices, and checks a stop flag between them. Package sandbox is the only caller.
//
// # Why the guest must count
//
// Go cannot preempt the machine code that wazero generates: a guest in one long loop keeps the
// garbage collector from stopping the world, and so freezes every goroutine. So every module that
// runs in the app's process goes through Instrument first.
//
// # Technique
//
// Fuel metering by static instrumentation, as in Wasmtime's fuel and in the gas metering of
// blockchain runtimes, with these choices:
//
//   - Three mutable globals are appended: fuel (what is left of the slice), budget (what is
//     left of the run) and stop. They are exported under names that a guest may not use.
//   - A check subtracts a constant from fuel and, below zero, calls a helper. Checks stand
//     at function entries, at loop headers, and inside bodies wherever more than a bounded
//     number of instructions could be executed since the last one.
//   - The constant is the longest path from the check to the next one. It is found in one
//     backward pass: each loop is a region of its own, its body is charged by its header, and
//     for the code around it the loop is a step that costs nothing. Inside a region the
//     control flow has no cycle, so the longest path is exact and the pass is linear.
//   - Bulk operations charge their length in bytes / 64 before they begin.
//   - The helper moves the next slice from budget to fuel, traps if the budget is used up,
//     executes memory.grow(0), which leaves machine code and so reaches a Go safepoint, and
//     traps if stop is set.
//   - With Options.CountStack, functions that can be on the native stack many times also subtract
//     the size of their frame from a fourth global and add it again when they return, because
//     that stack is memory of the host (depth.go).
//   - Everything is appended: no index of the original changes, so none has to be rewritten.
//
// Three optimizations keep it cheap without losing the bound. A function that may return after a
// few instructions has no check on that path; its callers pay for it, and every cycle of calls
// still passes a check (graph.go). A loop that begins with a switch, as that of an interpreter
// does, has its check in the arms, so a short arm does not pay for the longest one
// (planner.dispatch). And the check of a loop header is written so that the compiler moves the call
// out of the straight line.
//
// One rule costs a little more: after a call that may have been deep there is a check if more than
// a few instructions follow, because a deep recursion returns through all of its frames in a row.
//
// # Units
//
// A unit is one instruction. Instructions that call into Go (calls of imported functions,
// memory.grow, table operations) and divisions count more, see the weights in scanbody.go; block,
// loop, else and end count nothing, because they emit no machine code. The charge is never less
// than what was executed, except for at most 64 units at the start of a call by the host. On the
// JavaScript engine it is about 1.7 times as much, because a check pays for the longest path after
// it.
//
// # Running a metered module
//
// The resulting module cannot run before Gauge.Arm, because fuel and budget start at zero. A start
// section is removed and its function exported as StartExport, so that the host calls it after
// arming, under the same limits as the rest.
//
// # Untrusted input
//
// Untrusted bytes are read with strict bounds: exact LEB128 forms, counts checked against the
// remaining bytes, every index checked against the original module, memory linear in the size.
// Anything unknown is rejected, never skipped.
package meter
