;; class: timeout
;; host: wait
;; wall: 400ms
;; within: 1s
(module
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "{\"op\":\"state.keys\"}")
  (func (export "execute") (drop (call $call (i32.const 100) (i32.const 19)))))
