;; class: trap cpu host_denied
(module
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func $f (param i32) (result i32) (drop (call $read (i32.const 0) (i32.const 0))) (i32.add (call $f (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func (export "execute") (drop (call $f (i32.const 0)))))
