;; class: cpu
(module
  (memory (export "memory") 1)
  (func (export "execute") (local i32) (loop $l (local.set 0 (select (local.get 0) (i32.const 1) (i32.ctz (i32.popcnt (local.get 0))))) (br_if $l (i32.eqz (i32.const 0))))))
