;; class: ok output trap
(module
  (import "wasi_snapshot_preview1" "fd_renumber" (func $r (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $c (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (func (export "execute") (drop (call $r (i32.const 0) (i32.const 1))) (drop (call $r (i32.const 2) (i32.const 1))) (drop (call $r (i32.const 1) (i32.const -1))) (drop (call $c (i32.const 1))) (drop (call $c (i32.const 0))) (drop (call $c (i32.const 2))) (call $done)))
