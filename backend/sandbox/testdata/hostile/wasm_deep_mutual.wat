;; class: trap
(module
  (memory (export "memory") 1)
  (func $a (param i64) (result i64) (i64.add (call $b (i64.add (local.get 0) (i64.const 1))) (local.get 0)))
  (func $b (param i64) (result i64) (i64.xor (call $a (i64.add (local.get 0) (i64.const 1))) (local.get 0)))
  (func (export "execute") (drop (call $a (i64.const 0)))))
