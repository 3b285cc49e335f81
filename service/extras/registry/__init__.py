"""Models in object stores and in the registry of MLflow: `nearfield push` and `nearfield pull`."""
