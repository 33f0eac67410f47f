;; class: trap
(module
  (memory (export "memory") 1)
  (func (export "execute") (drop (i64.load8_u (i32.const 65536)))))
