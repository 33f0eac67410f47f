;; class: cpu
(module
  (memory (export "memory") 1)
  (func $e)
  (func (export "execute") (loop $l (call $e) (call $e) (call $e) (br $l))))
