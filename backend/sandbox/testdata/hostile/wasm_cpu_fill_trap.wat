;; class: trap
(module
  (memory (export "memory") 1)
  (func (export "execute") (loop $l (memory.fill (i32.const -1) (i32.const 1) (i32.const -1)) (br $l))))
