;; class: cpu
(module
  (import "wasi_snapshot_preview1" "sched_yield" (func $r (result i32)))
  (memory (export "memory") 1)
  (func (export "execute") (loop $l (drop (call $r)) (br $l))))
