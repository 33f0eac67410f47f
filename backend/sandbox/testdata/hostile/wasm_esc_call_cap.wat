;; class: host_denied ok
;; host: echo
(module
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "{\"op\":\"state.keys\"}")
  (func (export "execute") (local i32) (loop $l (drop (call $call (i32.const 100) (i32.const 19))) (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 1002)))) unreachable))
