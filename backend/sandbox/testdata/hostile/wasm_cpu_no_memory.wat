;; class: missing_export cpu
(module
  (func (export "execute") (loop $l (br $l))))
