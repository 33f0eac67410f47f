;; class: missing_export cpu
(module
  (memory 1)
  (func (export "execute") (loop $l (br $l))))
