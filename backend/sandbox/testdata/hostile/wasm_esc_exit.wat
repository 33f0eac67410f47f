;; class: trap
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $x (param i32)))
  (memory (export "memory") 1)
  (func (export "execute") (call $x (i32.const 3))))
