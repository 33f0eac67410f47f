// Intl
