;; class: trap
(module
  (memory (export "memory") 1)
  (func (export "execute") (drop (i32.div_s (i32.const 1) (i32.const 0)))))
