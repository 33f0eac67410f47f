;; class: compile missing_export trap ok output
(module
  (import "wasi_snapshot_preview1" "sched_yield" (func $r (result i32)))
  (export "execute" (func $r))
  (memory (export "memory") 1)
  )
