;; class: trap compile
(module
  (memory (export "memory") 1)
  (data (i32.const 65530) "0123456789")
  (func (export "execute") ))
