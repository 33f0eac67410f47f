;; class: trap compile output
(module
  (memory (export "memory") 1)
  (table 1 funcref) (elem (i32.const 1) $f) (func $f)
  (func (export "execute") ))
