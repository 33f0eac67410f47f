;; class: ok
(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $a (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $b (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (func (export "execute") (if (call $a (i32.const 100) (i32.const 104)) (then unreachable)) (if (i32.load (i32.const 100)) (then unreachable)) (if (call $b (i32.const 100) (i32.const 104)) (then unreachable)) (if (i32.load (i32.const 100)) (then unreachable)) (call $done)))
