"""Where code runs under the compiler, and which loops go around it."""
