;; class: compile
(module
  (import "wasi_snapshot_preview1" "memory" (memory 1))
  (func (export "execute") ))
