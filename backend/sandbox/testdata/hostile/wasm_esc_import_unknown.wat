;; class: compile
(module
  (import "wasi_snapshot_preview1" "path_exec" (func (param i32)))
  (memory (export "memory") 1)
  (func (export "execute") ))
