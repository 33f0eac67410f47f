;; class: cpu
(module
  (import "wasi_snapshot_preview1" "fd_read" (func $r (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "execute") (i32.store (i32.const 0) (i32.const 100)) (i32.store (i32.const 4) (i32.const 60000)) (loop $l (drop (call $r (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 16))) (br $l))))
