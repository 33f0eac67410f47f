;; class: trap compile
(module
  (memory (export "memory") 1)
  (data (i32.const -1) "0")
  (func (export "execute") ))
