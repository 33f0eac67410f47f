// URL
