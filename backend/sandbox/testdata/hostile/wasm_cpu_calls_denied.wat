;; class: cpu host_denied
(module
  (import "helix" "call" (func $call (param i32 i32) (result i32)))
  (import "helix" "read" (func $read (param i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 100) "{\"op\":\"secret\",\"name\":\"x\"}")
  (func (export "execute") (loop $l (drop (call $call (i32.const 100) (i32.const 27))) (br $l))))
