;; class: ok
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $done
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16))))
  (func (export "execute") (local i32) (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) (local.set 0 (i32.sub (i32.mul (memory.size) (i32.const 65536)) (i32.const 4096))) (loop $t (i32.store (local.get 0) (i32.const 7)) (br_if $t (i32.gt_s (local.tee 0 (i32.sub (local.get 0) (i32.const 4096))) (i32.const 4096)))) (call $done)))
