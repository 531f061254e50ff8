"""The folder that observed programs have on PYTHONPATH; it holds the module that Python imports at start-up."""
