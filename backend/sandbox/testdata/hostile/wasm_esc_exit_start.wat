;; class: trap output
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $x (param i32)))
  (memory (export "memory") 1)
  (func $s (call $x (i32.const 0))) (start $s)
  (func (export "execute") ))
