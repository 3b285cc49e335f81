"""Online learning on the device: tables, signatures and refits that stay there."""
