#!/bin/bash
set -e
cd /app
echo fjord > fjord.txt
