;; class: trap
(module
  (memory (export "memory") 1)
  (func (export "execute") (drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))))
