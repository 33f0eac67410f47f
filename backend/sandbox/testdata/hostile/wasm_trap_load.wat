;; class: trap
(module
  (memory (export "memory") 1)
  (func (export "execute") (drop (i64.load offset=0xffffffff (i32.const -1)))))
