;; class: ok
;; output: 1
;; Fails when a byte of its memory is not zero, then leaves all of it dirty.
(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $dirty (param i32 i32)
    (loop $l
      (if (i64.ne (i64.load (local.get 0)) (i64.const 0)) (then unreachable))
      (i64.store (local.get 0) (i64.const 0x5a5a5a5a5a5a5a5a))
      (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 64))) (local.get 1)))))
  (func (export "execute")
    (call $dirty (i32.const 0) (i32.const 65536))
    (loop $l (br_if $l (i32.ne (memory.grow (i32.const 8)) (i32.const -1))))
    (call $dirty (i32.const 65536) (i32.mul (memory.size) (i32.const 65536)))
    (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 49))
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))))
