;; class: ok
(module
  (import "wasi_snapshot_preview1" "path_create_directory" (func $a (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_unlink_file" (func $b (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_symlink" (func $c (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_link" (func $d (param i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $e (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (data (i32.const 100) "x")
  (func (export "execute") (if (i32.eqz (call $a (i32.const 3) (i32.const 100) (i32.const 1))) (then unreachable)) (if (i32.eqz (call $b (i32.const 3) (i32.const 100) (i32.const 1))) (then unreachable)) (if (i32.eqz (call $c (i32.const 100) (i32.const 1) (i32.const 3) (i32.const 100) (i32.const 1))) (then unreachable)) (if (i32.eqz (call $d (i32.const 3) (i32.const 1) (i32.const 100) (i32.const 1) (i32.const 3) (i32.const 100) (i32.const 1))) (then unreachable)) (if (i32.eqz (call $e (i32.const 3) (i32.const 200))) (then unreachable)) (call $done)))
