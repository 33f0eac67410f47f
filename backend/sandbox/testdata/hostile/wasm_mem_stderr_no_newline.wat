;; class: ok cpu
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (func (export "execute") (local i32) (memory.fill (i32.const 32) (i32.const 120) (i32.const 40000)) (i32.store (i32.const 0) (i32.const 32)) (i32.store (i32.const 4) (i32.const 40000)) (loop $l (drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 1) (i32.const 16))) (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 5000)))) (call $done)))
